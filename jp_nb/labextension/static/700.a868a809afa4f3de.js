"use strict";(self.rspackChunkjp_nb=self.rspackChunkjp_nb||[]).push([[700],{22(n,e,o){var t=o(23),r=o.n(t),a=o(24),i=(o.n(a))()(r());i.push([n.id,`/* Copy and "Insert as cell" on a code block of an answer. */

.jp-nb-code {
  position: relative;
}

/* JupyterLab removes the space below an element that is the last one of its parent. */
.jp-RenderedHTMLCommon > .jp-nb-code:not(:last-child) {
  margin-bottom: 1em;
}

/* It covers the space above the block rather than the code. */
.jp-nb-code-bar {
  position: absolute;
  right: 4px;
  top: -16px;
  z-index: 1;
  display: flex;
  gap: 4px;
  max-width: calc(100% - 8px);
  opacity: 0;
}

.jp-nb-code:first-child > .jp-nb-code-bar {
  top: 0;
}

.jp-nb-code:hover > .jp-nb-code-bar,
.jp-nb-code-bar:focus-within {
  opacity: 1;
}

/* A screen that cannot hover shows the buttons always. */
@media (hover: none) {
  .jp-nb-code-bar {
    opacity: 1;
  }
}

.jp-nb-button {
  padding: 0 8px;
  border: 1px solid var(--jp-border-color1);
  border-radius: 2px;
  background: var(--jp-layout-color1);
  color: var(--jp-ui-font-color1);
  font-family: var(--jp-ui-font-family);
  font-size: var(--jp-ui-font-size1);
  line-height: 22px;
  white-space: nowrap;
  cursor: pointer;
}

.jp-nb-button:hover {
  background: var(--jp-layout-color2);
}

.jp-nb-button:focus-visible {
  outline: 2px solid var(--jp-brand-color1);
  outline-offset: 1px;
}

/* "Ask about this error", below a traceback. */

.jp-nb-error-bar {
  display: flex;
  flex-wrap: wrap;
  gap: 4px 8px;
  align-items: center;
  padding: 4px 0;
  color: var(--jp-ui-font-color1);
  font-family: var(--jp-ui-font-family);
  font-size: var(--jp-ui-font-size1);
}
`,"",{version:3,sources:["webpack://./style/index.css"],names:[],mappings:"AAAA,4DAA4D;;AAE5D;EACE,kBAAkB;AACpB;;AAEA,sFAAsF;AACtF;EACE,kBAAkB;AACpB;;AAEA,8DAA8D;AAC9D;EACE,kBAAkB;EAClB,UAAU;EACV,UAAU;EACV,UAAU;EACV,aAAa;EACb,QAAQ;EACR,2BAA2B;EAC3B,UAAU;AACZ;;AAEA;EACE,MAAM;AACR;;AAEA;;EAEE,UAAU;AACZ;;AAEA,yDAAyD;AACzD;EACE;IACE,UAAU;EACZ;AACF;;AAEA;EACE,cAAc;EACd,yCAAyC;EACzC,kBAAkB;EAClB,mCAAmC;EACnC,+BAA+B;EAC/B,qCAAqC;EACrC,kCAAkC;EAClC,iBAAiB;EACjB,mBAAmB;EACnB,eAAe;AACjB;;AAEA;EACE,mCAAmC;AACrC;;AAEA;EACE,yCAAyC;EACzC,mBAAmB;AACrB;;AAEA,+CAA+C;;AAE/C;EACE,aAAa;EACb,eAAe;EACf,YAAY;EACZ,mBAAmB;EACnB,cAAc;EACd,+BAA+B;EAC/B,qCAAqC;EACrC,kCAAkC;AACpC",sourcesContent:['/* Copy and "Insert as cell" on a code block of an answer. */\n\n.jp-nb-code {\n  position: relative;\n}\n\n/* JupyterLab removes the space below an element that is the last one of its parent. */\n.jp-RenderedHTMLCommon > .jp-nb-code:not(:last-child) {\n  margin-bottom: 1em;\n}\n\n/* It covers the space above the block rather than the code. */\n.jp-nb-code-bar {\n  position: absolute;\n  right: 4px;\n  top: -16px;\n  z-index: 1;\n  display: flex;\n  gap: 4px;\n  max-width: calc(100% - 8px);\n  opacity: 0;\n}\n\n.jp-nb-code:first-child > .jp-nb-code-bar {\n  top: 0;\n}\n\n.jp-nb-code:hover > .jp-nb-code-bar,\n.jp-nb-code-bar:focus-within {\n  opacity: 1;\n}\n\n/* A screen that cannot hover shows the buttons always. */\n@media (hover: none) {\n  .jp-nb-code-bar {\n    opacity: 1;\n  }\n}\n\n.jp-nb-button {\n  padding: 0 8px;\n  border: 1px solid var(--jp-border-color1);\n  border-radius: 2px;\n  background: var(--jp-layout-color1);\n  color: var(--jp-ui-font-color1);\n  font-family: var(--jp-ui-font-family);\n  font-size: var(--jp-ui-font-size1);\n  line-height: 22px;\n  white-space: nowrap;\n  cursor: pointer;\n}\n\n.jp-nb-button:hover {\n  background: var(--jp-layout-color2);\n}\n\n.jp-nb-button:focus-visible {\n  outline: 2px solid var(--jp-brand-color1);\n  outline-offset: 1px;\n}\n\n/* "Ask about this error", below a traceback. */\n\n.jp-nb-error-bar {\n  display: flex;\n  flex-wrap: wrap;\n  gap: 4px 8px;\n  align-items: center;\n  padding: 4px 0;\n  color: var(--jp-ui-font-color1);\n  font-family: var(--jp-ui-font-family);\n  font-size: var(--jp-ui-font-size1);\n}\n'],sourceRoot:""}]),o.d(e,{},{A:i})},24(n){n.exports=function(n){var e=[];return e.toString=function(){return this.map(function(e){var o="",t=void 0!==e[5];return e[4]&&(o+="@supports (".concat(e[4],") {")),e[2]&&(o+="@media ".concat(e[2]," {")),t&&(o+="@layer".concat(e[5].length>0?" ".concat(e[5]):""," {")),o+=n(e),t&&(o+="}"),e[2]&&(o+="}"),e[4]&&(o+="}"),o}).join("")},e.i=function(n,o,t,r,a){"string"==typeof n&&(n=[[null,n,void 0]]);var i={};if(t)for(var c=0;c<this.length;c++){var p=this[c][0];null!=p&&(i[p]=!0)}for(var s=0;s<n.length;s++){var A=[].concat(n[s]);t&&i[A[0]]||(void 0!==a&&(void 0===A[5]||(A[1]="@layer".concat(A[5].length>0?" ".concat(A[5]):""," {").concat(A[1],"}")),A[5]=a),o&&(A[2]&&(A[1]="@media ".concat(A[2]," {").concat(A[1],"}")),A[2]=o),r&&(A[4]?(A[1]="@supports (".concat(A[4],") {").concat(A[1],"}"),A[4]=r):A[4]="".concat(r)),e.push(A))}},e}},23(n){n.exports=function(n){var e=n[1],o=n[3];if(!o)return e;if("function"==typeof btoa){var t=btoa(unescape(encodeURIComponent(JSON.stringify(o))));return[e].concat(["/*# ".concat("sourceMappingURL=data:application/json;charset=utf-8;base64,".concat(t)," */")]).join("\n")}return[e].join("\n")}},16(n){var e=[];function o(n){for(var o=-1,t=0;t<e.length;t++)if(e[t].identifier===n){o=t;break}return o}function t(n,t){for(var r={},a=[],i=0;i<n.length;i++){var c=n[i],p=t.base?c[0]+t.base:c[0],s=r[p]||0,A="".concat(p," ").concat(s);r[p]=s+1;var l=o(A),u={css:c[1],media:c[2],sourceMap:c[3],supports:c[4],layer:c[5]};if(-1!==l)e[l].references++,e[l].updater(u);else{var d=function(n,e){var o=e.domAPI(e);return o.update(n),function(e){e?(e.css!==n.css||e.media!==n.media||e.sourceMap!==n.sourceMap||e.supports!==n.supports||e.layer!==n.layer)&&o.update(n=e):o.remove()}}(u,t);t.byIndex=i,e.splice(i,0,{identifier:A,updater:d,references:1})}a.push(A)}return a}n.exports=function(n,r){var a=t(n=n||[],r=r||{});return function(n){n=n||[];for(var i=0;i<a.length;i++){var c=o(a[i]);e[c].references--}for(var p=t(n,r),s=0;s<a.length;s++){var A=o(a[s]);0===e[A].references&&(e[A].updater(),e.splice(A,1))}a=p}}},18(n){var e={};n.exports=function(n,o){var t=function(n){if(void 0===e[n]){var o=document.querySelector(n);if(window.HTMLIFrameElement&&o instanceof window.HTMLIFrameElement)try{o=o.contentDocument.head}catch(n){o=null}e[n]=o}return e[n]}(n);if(!t)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");t.appendChild(o)}},20(n){n.exports=function(n){var e=document.createElement("style");return n.setAttributes(e,n.attributes),n.insert(e,n.options),e}},19(n,e,o){n.exports=function(n){var e=o.nc;e&&n.setAttribute("nonce",e)}},17(n){n.exports=function(n){if("u"<typeof document)return{update:function(){},remove:function(){}};var e=n.insertStyleElement(n);return{update:function(o){var t,r,a;t="",o.supports&&(t+="@supports (".concat(o.supports,") {")),o.media&&(t+="@media ".concat(o.media," {")),(r=void 0!==o.layer)&&(t+="@layer".concat(o.layer.length>0?" ".concat(o.layer):""," {")),t+=o.css,r&&(t+="}"),o.media&&(t+="}"),o.supports&&(t+="}"),(a=o.sourceMap)&&"u">typeof btoa&&(t+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(a))))," */")),n.styleTagTransform(t,e,n.options)},remove:function(){var n;null===(n=e).parentNode||n.parentNode.removeChild(n)}}}},21(n){n.exports=function(n,e){if(e.styleSheet)e.styleSheet.cssText=n;else{for(;e.firstChild;)e.removeChild(e.firstChild);e.appendChild(document.createTextNode(n))}}},15(n,e,o){var t=o(16),r=o.n(t),a=o(17),i=o.n(a),c=o(18),p=o.n(c),s=o(19),A=o.n(s),l=o(20),u=o.n(l),d=o(21),f=o.n(d),b=o(22),C={};C.styleTagTransform=f(),C.setAttributes=A(),C.insert=p().bind(null,"head"),C.domAPI=i(),C.insertStyleElement=u(),r()(b.A,C),b.A&&b.A.locals&&b.A.locals}}]);
//# sourceMappingURL=700.a868a809afa4f3de.js.map?v=a868a809afa4f3de