"use strict";(self.rspackChunkjp_nb=self.rspackChunkjp_nb||[]).push([[359],{34(n,o,e){var t=e(35),r=e.n(t),A=e(36),a=(e.n(A))()(r());a.push([n.id,`/* Copy and "Insert as cell" on a code block of an answer. */

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

/* Read aloud when it changes, and not shown: the button shows the same. */
.jp-nb-said {
  position: absolute;
  width: 1px;
  height: 1px;
  overflow: hidden;
  clip-path: inset(50%);
  white-space: nowrap;
}

/* Characters in the code above that the user does not see. */
.jp-nb-code-warning {
  margin-top: 4px;
  padding: 4px 8px;
  border-left: 3px solid var(--jp-warn-color1, #f57c00);
  background: var(--jp-layout-color2);
  color: var(--jp-ui-font-color1);
  font-family: var(--jp-ui-font-family);
  font-size: var(--jp-ui-font-size1);
  overflow-wrap: anywhere;
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

/* The side panel with the conversations of the notebook. */

.jp-nb-section {
  overflow-y: auto;
  padding: 8px 12px;
  color: var(--jp-ui-font-color1);
  font-size: var(--jp-ui-font-size1);
  overflow-wrap: anywhere;
}

.jp-nb-chart {
  display: flex;
  gap: 1px;
  align-items: flex-end;
  height: 48px;
  margin-bottom: 8px;
  border-bottom: 1px solid var(--jp-border-color1);
}

.jp-nb-bar {
  flex: 1 1 0;
  min-height: 1px;
  max-width: 24px;
  background: var(--jp-brand-color1);
}

@media (forced-colors: active) {
  .jp-nb-bar {
    background: CanvasText;
    forced-color-adjust: none; /* a forced background would hide the bar */
  }
}

.jp-nb-list {
  margin: 0;
  padding: 0;
  list-style: none;
}

.jp-nb-row {
  padding: 8px 0;
  border-bottom: 1px solid var(--jp-border-color2);
}

.jp-nb-row-title {
  margin: 0;
  font-size: inherit;
  font-weight: 600;
}

.jp-nb-line > .jp-nb-button {
  margin-left: 8px;
}

.jp-nb-line {
  color: var(--jp-ui-font-color1);
}

.jp-nb-actions-row {
  display: flex;
  flex-wrap: wrap;
  gap: 4px;
  margin-top: 4px;
}

/* A picture of a report selects its colors by the scheme of this element: that of the theme, not
   that of the browser. */
.jp-nb-picture {
  color-scheme: light;
}

[data-jp-theme-light='false'] .jp-nb-picture {
  color-scheme: dark;
}
`,"",{version:3,sources:["webpack://./style/index.css"],names:[],mappings:"AAAA,4DAA4D;;AAE5D;EACE,kBAAkB;AACpB;;AAEA,sFAAsF;AACtF;EACE,kBAAkB;AACpB;;AAEA,8DAA8D;AAC9D;EACE,kBAAkB;EAClB,UAAU;EACV,UAAU;EACV,UAAU;EACV,aAAa;EACb,QAAQ;EACR,2BAA2B;EAC3B,UAAU;AACZ;;AAEA;EACE,MAAM;AACR;;AAEA;;EAEE,UAAU;AACZ;;AAEA,yDAAyD;AACzD;EACE;IACE,UAAU;EACZ;AACF;;AAEA;EACE,cAAc;EACd,yCAAyC;EACzC,kBAAkB;EAClB,mCAAmC;EACnC,+BAA+B;EAC/B,qCAAqC;EACrC,kCAAkC;EAClC,iBAAiB;EACjB,mBAAmB;EACnB,eAAe;AACjB;;AAEA;EACE,mCAAmC;AACrC;;AAEA;EACE,yCAAyC;EACzC,mBAAmB;AACrB;;AAEA,0EAA0E;AAC1E;EACE,kBAAkB;EAClB,UAAU;EACV,WAAW;EACX,gBAAgB;EAChB,qBAAqB;EACrB,mBAAmB;AACrB;;AAEA,6DAA6D;AAC7D;EACE,eAAe;EACf,gBAAgB;EAChB,qDAAqD;EACrD,mCAAmC;EACnC,+BAA+B;EAC/B,qCAAqC;EACrC,kCAAkC;EAClC,uBAAuB;AACzB;;AAEA,+CAA+C;;AAE/C;EACE,aAAa;EACb,eAAe;EACf,YAAY;EACZ,mBAAmB;EACnB,cAAc;EACd,+BAA+B;EAC/B,qCAAqC;EACrC,kCAAkC;AACpC;;AAEA,2DAA2D;;AAE3D;EACE,gBAAgB;EAChB,iBAAiB;EACjB,+BAA+B;EAC/B,kCAAkC;EAClC,uBAAuB;AACzB;;AAEA;EACE,aAAa;EACb,QAAQ;EACR,qBAAqB;EACrB,YAAY;EACZ,kBAAkB;EAClB,gDAAgD;AAClD;;AAEA;EACE,WAAW;EACX,eAAe;EACf,eAAe;EACf,kCAAkC;AACpC;;AAEA;EACE;IACE,sBAAsB;IACtB,yBAAyB,EAAE,2CAA2C;EACxE;AACF;;AAEA;EACE,SAAS;EACT,UAAU;EACV,gBAAgB;AAClB;;AAEA;EACE,cAAc;EACd,gDAAgD;AAClD;;AAEA;EACE,SAAS;EACT,kBAAkB;EAClB,gBAAgB;AAClB;;AAEA;EACE,gBAAgB;AAClB;;AAEA;EACE,+BAA+B;AACjC;;AAEA;EACE,aAAa;EACb,eAAe;EACf,QAAQ;EACR,eAAe;AACjB;;AAEA;yBACyB;AACzB;EACE,mBAAmB;AACrB;;AAEA;EACE,kBAAkB;AACpB",sourcesContent:['/* Copy and "Insert as cell" on a code block of an answer. */\n\n.jp-nb-code {\n  position: relative;\n}\n\n/* JupyterLab removes the space below an element that is the last one of its parent. */\n.jp-RenderedHTMLCommon > .jp-nb-code:not(:last-child) {\n  margin-bottom: 1em;\n}\n\n/* It covers the space above the block rather than the code. */\n.jp-nb-code-bar {\n  position: absolute;\n  right: 4px;\n  top: -16px;\n  z-index: 1;\n  display: flex;\n  gap: 4px;\n  max-width: calc(100% - 8px);\n  opacity: 0;\n}\n\n.jp-nb-code:first-child > .jp-nb-code-bar {\n  top: 0;\n}\n\n.jp-nb-code:hover > .jp-nb-code-bar,\n.jp-nb-code-bar:focus-within {\n  opacity: 1;\n}\n\n/* A screen that cannot hover shows the buttons always. */\n@media (hover: none) {\n  .jp-nb-code-bar {\n    opacity: 1;\n  }\n}\n\n.jp-nb-button {\n  padding: 0 8px;\n  border: 1px solid var(--jp-border-color1);\n  border-radius: 2px;\n  background: var(--jp-layout-color1);\n  color: var(--jp-ui-font-color1);\n  font-family: var(--jp-ui-font-family);\n  font-size: var(--jp-ui-font-size1);\n  line-height: 22px;\n  white-space: nowrap;\n  cursor: pointer;\n}\n\n.jp-nb-button:hover {\n  background: var(--jp-layout-color2);\n}\n\n.jp-nb-button:focus-visible {\n  outline: 2px solid var(--jp-brand-color1);\n  outline-offset: 1px;\n}\n\n/* Read aloud when it changes, and not shown: the button shows the same. */\n.jp-nb-said {\n  position: absolute;\n  width: 1px;\n  height: 1px;\n  overflow: hidden;\n  clip-path: inset(50%);\n  white-space: nowrap;\n}\n\n/* Characters in the code above that the user does not see. */\n.jp-nb-code-warning {\n  margin-top: 4px;\n  padding: 4px 8px;\n  border-left: 3px solid var(--jp-warn-color1, #f57c00);\n  background: var(--jp-layout-color2);\n  color: var(--jp-ui-font-color1);\n  font-family: var(--jp-ui-font-family);\n  font-size: var(--jp-ui-font-size1);\n  overflow-wrap: anywhere;\n}\n\n/* "Ask about this error", below a traceback. */\n\n.jp-nb-error-bar {\n  display: flex;\n  flex-wrap: wrap;\n  gap: 4px 8px;\n  align-items: center;\n  padding: 4px 0;\n  color: var(--jp-ui-font-color1);\n  font-family: var(--jp-ui-font-family);\n  font-size: var(--jp-ui-font-size1);\n}\n\n/* The side panel with the conversations of the notebook. */\n\n.jp-nb-section {\n  overflow-y: auto;\n  padding: 8px 12px;\n  color: var(--jp-ui-font-color1);\n  font-size: var(--jp-ui-font-size1);\n  overflow-wrap: anywhere;\n}\n\n.jp-nb-chart {\n  display: flex;\n  gap: 1px;\n  align-items: flex-end;\n  height: 48px;\n  margin-bottom: 8px;\n  border-bottom: 1px solid var(--jp-border-color1);\n}\n\n.jp-nb-bar {\n  flex: 1 1 0;\n  min-height: 1px;\n  max-width: 24px;\n  background: var(--jp-brand-color1);\n}\n\n@media (forced-colors: active) {\n  .jp-nb-bar {\n    background: CanvasText;\n    forced-color-adjust: none; /* a forced background would hide the bar */\n  }\n}\n\n.jp-nb-list {\n  margin: 0;\n  padding: 0;\n  list-style: none;\n}\n\n.jp-nb-row {\n  padding: 8px 0;\n  border-bottom: 1px solid var(--jp-border-color2);\n}\n\n.jp-nb-row-title {\n  margin: 0;\n  font-size: inherit;\n  font-weight: 600;\n}\n\n.jp-nb-line > .jp-nb-button {\n  margin-left: 8px;\n}\n\n.jp-nb-line {\n  color: var(--jp-ui-font-color1);\n}\n\n.jp-nb-actions-row {\n  display: flex;\n  flex-wrap: wrap;\n  gap: 4px;\n  margin-top: 4px;\n}\n\n/* A picture of a report selects its colors by the scheme of this element: that of the theme, not\n   that of the browser. */\n.jp-nb-picture {\n  color-scheme: light;\n}\n\n[data-jp-theme-light=\'false\'] .jp-nb-picture {\n  color-scheme: dark;\n}\n'],sourceRoot:""}]),e.d(o,{},{A:a})},37(n,o,e){var t=e(35),r=e.n(t),A=e(36),a=(e.n(A))()(r());a.push([n.id,`/* The cells that an open review is about, and the buttons that show them. */

.jp-Notebook .jp-Cell.jp-nb-affected {
  outline: 2px solid var(--jp-warn-color1, #f57c00);
  outline-offset: -2px;
}

.jp-Notebook .jp-Cell.jp-nb-inserts-below {
  box-shadow: inset 0 -3px 0 var(--jp-success-color1, #388e3c);
}

.jp-Notebook.jp-nb-inserts-at-start {
  box-shadow: inset 0 3px 0 var(--jp-success-color1, #388e3c);
}

/* Forced colors remove shadows. */
@media (forced-colors: active) {
  .jp-Notebook .jp-Cell.jp-nb-inserts-below {
    border-bottom: 3px solid Highlight;
  }

  .jp-Notebook.jp-nb-inserts-at-start {
    border-top: 3px solid Highlight;
  }
}

.jp-nb-show-cells {
  display: flex;
  flex-wrap: wrap;
  gap: 4px;
  align-items: center;
  padding: 4px 0;
  color: var(--jp-ui-font-color1);
  font-size: var(--jp-ui-font-size1);
}

.jp-nb-show-cells .jp-nb-show-cell {
  width: auto;
}

.jp-nb-show-problem:not(:empty) {
  padding-left: 4px;
  font-size: var(--jp-ui-font-size1);
}

.jp-nb-back.jp-nb-show-cell {
  position: absolute;
  right: 24px;
  bottom: 24px;
  z-index: 10;
  width: auto;
  box-shadow: var(--jp-elevation-z4);
}
`,"",{version:3,sources:["webpack://./style/reviews.css"],names:[],mappings:"AAAA,4EAA4E;;AAE5E;EACE,iDAAiD;EACjD,oBAAoB;AACtB;;AAEA;EACE,4DAA4D;AAC9D;;AAEA;EACE,2DAA2D;AAC7D;;AAEA,kCAAkC;AAClC;EACE;IACE,kCAAkC;EACpC;;EAEA;IACE,+BAA+B;EACjC;AACF;;AAEA;EACE,aAAa;EACb,eAAe;EACf,QAAQ;EACR,mBAAmB;EACnB,cAAc;EACd,+BAA+B;EAC/B,kCAAkC;AACpC;;AAEA;EACE,WAAW;AACb;;AAEA;EACE,iBAAiB;EACjB,kCAAkC;AACpC;;AAEA;EACE,kBAAkB;EAClB,WAAW;EACX,YAAY;EACZ,WAAW;EACX,WAAW;EACX,kCAAkC;AACpC",sourcesContent:["/* The cells that an open review is about, and the buttons that show them. */\n\n.jp-Notebook .jp-Cell.jp-nb-affected {\n  outline: 2px solid var(--jp-warn-color1, #f57c00);\n  outline-offset: -2px;\n}\n\n.jp-Notebook .jp-Cell.jp-nb-inserts-below {\n  box-shadow: inset 0 -3px 0 var(--jp-success-color1, #388e3c);\n}\n\n.jp-Notebook.jp-nb-inserts-at-start {\n  box-shadow: inset 0 3px 0 var(--jp-success-color1, #388e3c);\n}\n\n/* Forced colors remove shadows. */\n@media (forced-colors: active) {\n  .jp-Notebook .jp-Cell.jp-nb-inserts-below {\n    border-bottom: 3px solid Highlight;\n  }\n\n  .jp-Notebook.jp-nb-inserts-at-start {\n    border-top: 3px solid Highlight;\n  }\n}\n\n.jp-nb-show-cells {\n  display: flex;\n  flex-wrap: wrap;\n  gap: 4px;\n  align-items: center;\n  padding: 4px 0;\n  color: var(--jp-ui-font-color1);\n  font-size: var(--jp-ui-font-size1);\n}\n\n.jp-nb-show-cells .jp-nb-show-cell {\n  width: auto;\n}\n\n.jp-nb-show-problem:not(:empty) {\n  padding-left: 4px;\n  font-size: var(--jp-ui-font-size1);\n}\n\n.jp-nb-back.jp-nb-show-cell {\n  position: absolute;\n  right: 24px;\n  bottom: 24px;\n  z-index: 10;\n  width: auto;\n  box-shadow: var(--jp-elevation-z4);\n}\n"],sourceRoot:""}]),e.d(o,{},{A:a})},36(n){n.exports=function(n){var o=[];return o.toString=function(){return this.map(function(o){var e="",t=void 0!==o[5];return o[4]&&(e+="@supports (".concat(o[4],") {")),o[2]&&(e+="@media ".concat(o[2]," {")),t&&(e+="@layer".concat(o[5].length>0?" ".concat(o[5]):""," {")),e+=n(o),t&&(e+="}"),o[2]&&(e+="}"),o[4]&&(e+="}"),e}).join("")},o.i=function(n,e,t,r,A){"string"==typeof n&&(n=[[null,n,void 0]]);var a={};if(t)for(var p=0;p<this.length;p++){var i=this[p][0];null!=i&&(a[i]=!0)}for(var s=0;s<n.length;s++){var l=[].concat(n[s]);t&&a[l[0]]||(void 0!==A&&(void 0===l[5]||(l[1]="@layer".concat(l[5].length>0?" ".concat(l[5]):""," {").concat(l[1],"}")),l[5]=A),e&&(l[2]&&(l[1]="@media ".concat(l[2]," {").concat(l[1],"}")),l[2]=e),r&&(l[4]?(l[1]="@supports (".concat(l[4],") {").concat(l[1],"}"),l[4]=r):l[4]="".concat(r)),o.push(l))}},o}},35(n){n.exports=function(n){var o=n[1],e=n[3];if(!e)return o;if("function"==typeof btoa){var t=btoa(unescape(encodeURIComponent(JSON.stringify(e))));return[o].concat(["/*# ".concat("sourceMappingURL=data:application/json;charset=utf-8;base64,".concat(t)," */")]).join("\n")}return[o].join("\n")}},28(n){var o=[];function e(n){for(var e=-1,t=0;t<o.length;t++)if(o[t].identifier===n){e=t;break}return e}function t(n,t){for(var r={},A=[],a=0;a<n.length;a++){var p=n[a],i=t.base?p[0]+t.base:p[0],s=r[i]||0,l="".concat(i," ").concat(s);r[i]=s+1;var c=e(l),d={css:p[1],media:p[2],sourceMap:p[3],supports:p[4],layer:p[5]};if(-1!==c)o[c].references++,o[c].updater(d);else{var b=function(n,o){var e=o.domAPI(o);return e.update(n),function(o){o?(o.css!==n.css||o.media!==n.media||o.sourceMap!==n.sourceMap||o.supports!==n.supports||o.layer!==n.layer)&&e.update(n=o):e.remove()}}(d,t);t.byIndex=a,o.splice(a,0,{identifier:l,updater:b,references:1})}A.push(l)}return A}n.exports=function(n,r){var A=t(n=n||[],r=r||{});return function(n){n=n||[];for(var a=0;a<A.length;a++){var p=e(A[a]);o[p].references--}for(var i=t(n,r),s=0;s<A.length;s++){var l=e(A[s]);0===o[l].references&&(o[l].updater(),o.splice(l,1))}A=i}}},30(n){var o={};n.exports=function(n,e){var t=function(n){if(void 0===o[n]){var e=document.querySelector(n);if(window.HTMLIFrameElement&&e instanceof window.HTMLIFrameElement)try{e=e.contentDocument.head}catch(n){e=null}o[n]=e}return o[n]}(n);if(!t)throw Error("Couldn't find a style target. This probably means that the value for the 'insert' parameter is invalid.");t.appendChild(e)}},32(n){n.exports=function(n){var o=document.createElement("style");return n.setAttributes(o,n.attributes),n.insert(o,n.options),o}},31(n,o,e){n.exports=function(n){var o=e.nc;o&&n.setAttribute("nonce",o)}},29(n){n.exports=function(n){if("u"<typeof document)return{update:function(){},remove:function(){}};var o=n.insertStyleElement(n);return{update:function(e){var t,r,A;t="",e.supports&&(t+="@supports (".concat(e.supports,") {")),e.media&&(t+="@media ".concat(e.media," {")),(r=void 0!==e.layer)&&(t+="@layer".concat(e.layer.length>0?" ".concat(e.layer):""," {")),t+=e.css,r&&(t+="}"),e.media&&(t+="}"),e.supports&&(t+="}"),(A=e.sourceMap)&&"u">typeof btoa&&(t+="\n/*# sourceMappingURL=data:application/json;base64,".concat(btoa(unescape(encodeURIComponent(JSON.stringify(A))))," */")),n.styleTagTransform(t,o,n.options)},remove:function(){var n;null===(n=o).parentNode||n.parentNode.removeChild(n)}}}},33(n){n.exports=function(n,o){if(o.styleSheet)o.styleSheet.cssText=n;else{for(;o.firstChild;)o.removeChild(o.firstChild);o.appendChild(document.createTextNode(n))}}},27(n,o,e){var t=e(28),r=e.n(t),A=e(29),a=e.n(A),p=e(30),i=e.n(p),s=e(31),l=e.n(s),c=e(32),d=e.n(c),b=e(33),C=e.n(b),h=e(34),u={};u.styleTagTransform=C(),u.setAttributes=l(),u.insert=i().bind(null,"head"),u.domAPI=a(),u.insertStyleElement=d(),r()(h.A,u),h.A&&h.A.locals&&h.A.locals;var f=e(37),E={};E.styleTagTransform=C(),E.setAttributes=l(),E.insert=i().bind(null,"head"),E.domAPI=a(),E.insertStyleElement=d(),r()(f.A,E),f.A&&f.A.locals&&f.A.locals}}]);
//# sourceMappingURL=359.bd466fae7cd517ef.js.map?v=bd466fae7cd517ef