import './index.css';
import './reviews.css';
